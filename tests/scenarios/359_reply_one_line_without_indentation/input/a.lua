return {
  cmd = { "x" },
}
