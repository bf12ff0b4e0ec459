def b
  y
  z
end
