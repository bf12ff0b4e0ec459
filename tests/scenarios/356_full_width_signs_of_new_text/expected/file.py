a = f(x, y)
