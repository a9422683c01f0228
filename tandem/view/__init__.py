"""The view: the simulated machine on a page, with its inputs, its age, and hands on it.

A process of its own. It reads rings, newest only, talks to the simulator as any client does (sim_service/commands.py):
it may be slow, absent or killed without the loop noticing. viser serves the page; nothing here is JavaScript, nothing
here is compiled.

    data_source.py     where frames come from: a running simulation, or a record
    scene_view.py      the scene: bodies, ground, forces, path
    cameras.py         from where each page looks at it
    ground.py          the surface below the machine and the course that its device follows
    geometry.py        meshes of simple things
    panel.py           what stands beside it: instruments.py, plots.py, tuning.py, controls.py; history.py keeps the
                       last seconds, commander.py talks to the simulator, fork.py looks ahead
    push.py            a hand on the machine
    player.py          time, of a record: slider, speed, steps; two records against each other
    mechanism_page.py  a mechanism in the hand, on a page of its own; rig.py runs it, mechanism_controls.py acts on
                       bodies and joints
    page_access.py     token, session, origin: access over HTTP
    messages.py        what a page may send
    listen.py          the server: viser behind both
    process.py         the process: a look at the data, thirty times a second
"""
