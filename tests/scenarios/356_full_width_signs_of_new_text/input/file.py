a = f(x)
