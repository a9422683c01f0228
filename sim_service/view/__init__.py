"""The view: the simulated machine on a page, with its inputs, its age, and hands on it.

A process of its own. It reads rings, newest only, and talks to the simulator as anybody may (sim_service/commands.py):
it may be slow, absent or killed without the loop noticing. viser serves the page; nothing here is JavaScript, nothing
here is compiled.

    feed.py     where frames come from: a running simulation, or a record
    stage.py    the scene: bodies, wheels, road, forces, path, cameras
    panel.py    the instruments, plots, tuning and controls
    player.py   time, of a record: slider, speed, steps; two records against each other
    door.py     who may come in
    service.py  the process: a look at the feed, thirty times a second
"""
