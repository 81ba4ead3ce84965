# Never ends by itself: the wall limit ends it.
print("looping", flush=True)
while True:
    pass
