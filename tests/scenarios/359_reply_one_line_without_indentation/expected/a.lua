return {
  cmd = function(d)
    local c = 1
  end,
}
