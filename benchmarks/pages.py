def render(a,b): pass
