"""The registry: every promise by name, what it says, where it is measured, how long that takes and what it needs.

A new one is an entry here and a function below verify/ that yields rows (verify/measure.py); the keyword arguments of
that function are its options. `bench` and `drill` are its settings in `make bench` and `make drill`, `quick` its
shortest; None: it is not part of it.
"""

from verify.registry import Promise

_ALONE = ("quiet machine",)
_FMPY = ("package fmpy",)
_CHECKED = {"NUMBA_BOUNDSCHECK": "1"}

_PATH = (
    Promise("ring", "No read of the ring is torn or goes back, and no loss is without its number.",
            "path.ring:ring", 1.5, quick={"seconds": 3.0}, bench={}),
    Promise("ring-check", "The ring's algorithm holds in all executions on any machine that keeps C11, and a "
            "weakened one is found.",
            "path.ring_check:ring_check", 2, quick={"small": True}, drill={}),
    Promise("correspondence", "Every step uses the newest block that had arrived, on every transport.",
            "path.correspondence:correspondence", 4, quick={"seconds": 5.0, "transport": ("shm",)}, bench={}),
    Promise("derivatives", "Speed and acceleration of an encoder: how much each estimator errs, and how late it is.",
            "path.derivatives:derivatives", 2, bench={}),
    Promise("ni-drive", "A drive on a double of NI's device loses no scan.",
            "path.ni_drive:ni_drive", 1.5, needs=("package nidaqmx", "package grpc"), quick={"seconds": 5.0}),
    Promise("schedules", "The loop keeps its promises on random schedules in virtual time.",
            "path.schedules:schedules", 1, quick={"schedules": 200}, drill={"schedules": 100_000}),
    Promise("schedules-buggy", "The loop keeps them with the buggy as its machine.",
            "path.schedules:schedules", 5, preset={"model": "buggy"}, drill={"schedules": 1000}),
    Promise("loop-mutations", "The check of schedules finds every fault that is put into the loop.",
            "path.loop_mutations:loop_mutations", 15, drill={}),
    Promise("latency", "From a sample to the result, at any phase.",
            "others.commands:latency", 1.5, needs=_ALONE, preset={"phase": False}, quick={"seconds": 5.0}, bench={}),
    Promise("latency-locked", "From a sample to the result, the steps locked to the blocks.",
            "others.commands:latency", 1.5, needs=_ALONE, preset={"phase": True}, quick={"seconds": 5.0}, bench={}),
)  # fmt: skip
_SPEED = (
    Promise("starts", "The first step comes within 45 s cold, 2 s warm, 5 s after an edit.",
            "speed.starts:starts", 8, needs=_ALONE, drill={}),
    Promise("stops", "The loop stops no more often than a bare loop beside it.",
            "speed.stops:stops", 8, needs=_ALONE, quick={"drives": 1, "seconds": 3.0}, drill={}),
    Promise("memory", "A drive with page and record takes at most 600 MB.",
            "speed.memory:memory", 0.6, quick={"after_s": 3.0, "seconds": 2.0}, drill={}),
    Promise("cpu-load", "Busy processes on every core make a drive miss no more than a bare loop.",
            "speed.cpu_load:cpu_load", 3, needs=_ALONE, drill={}),
    Promise("view-cost", "Ten open pages with six charts make the tail of the loop's lateness at most 1.5 times as "
            "long.",
            "speed.view_cost:view_cost", 3, needs=(*_ALONE, "package websockets")),
    Promise("live-pairs", "Groups of settings of the live path, in turns: what each costs.",
            "speed.live_pairs:live_pairs", 5, needs=_ALONE),
    Promise("round-trip", "The round trip of an effort through shared memory, misses beside a bare loop's.",
            "speed.round_trip:round_trip", 0.6, needs=_ALONE, quick={"seconds": 5.0}),
    Promise("record-cost", "What a block costs the recorder, with and without an index behind every write.",
            "speed.record_cost:record_cost", 1, quick={"rounds": 20}),
    Promise("step-cost", "A step of the buggy costs at most 1.1 times what it costs in another checkout.",
            "speed.step_cost:step_cost", 1),
    Promise("observer-cost", "A step of the car with its whole filter takes at most 120 us.",
            "speed.observer_cost:observer_cost", 2, needs=_ALONE, quick={"rounds": 2, "steps": 50}),
    Promise("relative-cost", "Generated code of the buggy keeps its limits of time and of making.",
            "speed.relative_cost:relative_cost", 1, needs=_ALONE, quick={"rounds": 10}),
    Promise("chain-cost", "An evaluation of a chain costs in proportion to its links.",
            "speed.chain_cost:chain_cost", 0.5, quick={"rounds": 10}),
    Promise("integrator-cost", "What integrators of the reduced system cost without the system.",
            "speed.integrator_cost:integrator_cost", 0.3, quick={"rounds": 20}),
    Promise("unrolled", "Unrolled code gives the bits of index tables, in less time.",
            "speed.unrolled:unrolled", 3, quick={"rounds": 1}),
)  # fmt: skip
_PHYSICS = (
    Promise("car-formulations", "The buggy in relative coordinates errs less than in natural ones, within its time.",
            "physics.car_formulations:car_formulations", 8, needs=_ALONE),
    Promise("formulations", "Both formulations of every mechanism and of the buggy agree at random states.",
            "physics.formulations:formulations", 3, quick={"states": 20}),
    Promise("energy", "Mechanisms that nothing does work on keep their energy to 1e-4.",
            "physics.energy:energy", 5, quick={"only": "pendulum"}, drill={}),
    Promise("drop", "A dropped buggy has the same forces at 5, 2 and 1 ms.",
            "physics.drop:drops", 0.5, quick={}),
    Promise("kerbs", "Kerbs and steps give a car no energy, at any ramp, speed and time step.",
            "physics.kerbs:kerbs", 6),
    Promise("tyres", "Tyres are the published formulas, and keep energy.",
            "physics.tyres:tyres", 3),
    Promise("roll-overs", "Cars that roll over stay finite, gain no energy, and come to rest.",
            "physics.roll_overs:roll_overs", 20, quick={"count": 2}),
    Promise("impacts", "Cars that run into walls gain at most 50 J in a step.",
            "physics.roll_overs:impacts", 10, quick={"count": 2}),
    Promise("haptics-loop", "At 5 kHz nothing is lost, the round trip is at most 300 us, and replay is exact.",
            "physics.haptics:loop", 1.5, needs=_ALONE, quick={"seconds": 5.0}),
    Promise("haptics-chatter", "The wall chatters from the stiffness on that the eigenvalues predict.",
            "physics.haptics:chatter", 2.5, needs=_ALONE),
    Promise("haptics-energy", "A push gives out what hold and delay explain.",
            "physics.haptics:energy", 1, needs=_ALONE),
    Promise("haptics-kills", "After kill -9 of simulator or DAQ the effort is zero in time.",
            "physics.haptics:kills", 3, quick={"kills": 1}),
    Promise("haptics-limit", "At the doctor's limits the device comes to rest, far beyond them it does not.",
            "physics.haptics:limit", 2, needs=_ALONE),
    Promise("haptics-hands-off", "A wheel that nobody holds comes to rest, up to 150 km/h.",
            "physics.haptics:hands_off", 1.3, needs=_ALONE),
    Promise("haptics-port", "The car's port model at 5 kHz is the car at 1 ms.",
            "physics.haptic_port:port", 2.5, needs=_ALONE),
    Promise("piano", "A piano key at 4 kHz loses nothing, costs at most 60 us a step, and replays exactly.",
            "physics.piano:one_key", 1.3, needs=_ALONE, preset={"action": "piano"}, quick={"seconds": 5.0}),
    Promise("piano-multibody", "The same with the grand action of six bodies, at most 150 us a step.",
            "physics.piano:one_key", 1.3, needs=_ALONE, preset={"action": "piano_multibody"}, quick={"seconds": 5.0}),
    Promise("piano-octave", "Thirteen keys at 1 kHz lose nothing and replay exactly.",
            "physics.piano:octave", 1.3, needs=_ALONE, quick={"seconds": 5.0}),
    Promise("multibody-bench", "Every multibody formulation on mechanisms with a known answer, beside other codes.",
            "multibody.bench:multibody_bench", 10, needs=_ALONE, quick={"small": True}, bench={}),
    Promise("wheel-torque", "A vehicle driven by a wheel torque moves alike in all formulations, beside Exudyn.",
            "multibody.wheel_torque:wheel_torque", 0.5, quick={"seconds": 1.6}),
    Promise("iso", "ISO manoeuvres of the shipped car.",
            "others.commands:iso", 3, bench={}),
)  # fmt: skip
_ESTIMATION = (
    Promise("observers", "The car's filter keeps its bounds of error and its covariance is honest, over 20 drives.",
            "estimation.observers:observers", 8),
    Promise("late-readings", "Late readings give the estimate of timely ones, within 2 ms a step.",
            "estimation.late_readings:late_readings", 1, needs=_ALONE, quick={"seconds": 2.0, "rounds": 1}),
    Promise("look-ahead-warnings", "The look ahead warns 0.5 s before 90 % of losses of control.",
            "estimation.look_ahead:warnings", 20, drill={"drives": 20, "minutes": 2.0}),
    Promise("look-ahead-cost", "90 % of futures take at most 20 ms of a core.",
            "estimation.look_ahead:cost", 2, quick={"drives": 1}),
    Promise("look-ahead-loop", "The look ahead makes the loop no later than it is without.",
            "estimation.look_ahead:loop", 5, needs=_ALONE),
    Promise("look-ahead-replay", "Every recorded prediction is computed again to the bit.",
            "estimation.look_ahead:replay", 0.5),
    Promise("identify", "Identified parameters are within the intervals that are stated.",
            "estimation.identify:identified", 6, needs=("package scipy",), drill={}),
)  # fmt: skip
_ROBUSTNESS = (
    *(
        Promise(f"soak-{drill}", text,
                "robustness.soak:soak", minutes, preset={"drill": drill}, needs=needs, drill=wanted)
        for drill, text, minutes, needs, wanted in (
            ("kills", "Killed processes are replaced, and the record says everything.", 20, (), {}),
            ("stops", "Stopped processes are noticed and the drive goes on.", 3, (), {"minutes": 3.0}),
            ("restarts", "A run starts and ends a hundred times and leaves nothing.", 20, (), {}),
            ("disk", "A full disk ends the record, not the drive.", 2, ("root",), {}),
            ("clock", "Two hosts whose clocks differ and drift are one drive.", 2, (), {"minutes": 2.0}),
        )
    ),
    Promise("crashes", "After a SIGKILL at any instant the record is read and replays to the bit.",
            "robustness.crashes:crashes", 15, quick={"kills": 1}, drill={}),
    Promise("flood", "A flood at any door makes the drive at most 1.5 times as late, and is counted.",
            "robustness.flood:flood", 6, needs=_ALONE, drill={}),
    Promise("effort-kills", "A killed simulator's effort is zero in time.",
            "robustness.effort_kills:effort_kills", 1, quick={"kills": 1}),
    Promise("power-cuts", "Whatever the recorder had synced is read after a power cut at any instant.",
            "robustness.power_cuts:power_cuts", 1.5, needs=("program cc",), quick={"cuts": 10, "seconds": 5.0},
            drill={}),
    Promise("week", "A week of recording takes bounded memory and disk.",
            "robustness.week:week", 6, quick={"days": 0.1}, drill={}),
    Promise("fuzz", "No input crashes, hangs or eats the memory of anything that reads what others wrote.",
            "robustness.fuzz:fuzz", 3, quick={"inputs": 1000}, drill={"inputs": 1_000_000}),
    Promise("bombs", "Small files that would take gigabytes or minutes are refused in 2 s and 200 MB.",
            "robustness.bombs:bombs", 5, quick={"kind": "dbc"}, drill={}),
    Promise("hostile-words", "No recorded number makes a step leave its arrays or never end, with bounds checked.",
            "robustness.hostile_words:hostile_words", 25, environment=_CHECKED, drill={}),
    Promise("hostile-words-unchecked", "Nor with the kernels of every run.",
            "robustness.hostile_words:hostile_words", 10, quick={"machine": ("mass_spring",), "every": 10}),
)  # fmt: skip
_ENSEMBLES = (
    Promise("fleet", "200 records, 5 of them hostile, a worker killed: 195 are identical, 5 say why.",
            "ensembles.fleet:fleet", 3, needs=("package pyarrow",), drill={}),
    Promise("sweep", "A sweep gives the same table by one worker, two, killed and resumed, and on a cluster.",
            "ensembles.sweep:swept", 6, needs=("package pyarrow", "package distributed"),
            quick={"runs": 20, "no_cluster": True}, drill={"runs": 200}),
    Promise("vector-env", "1024 cars step through DLPack without a copy.",
            "ensembles.vector_env:vector_env", 0.5, needs=("package gymnasium",), quick={"steps": 20}),
    Promise("gpu-batch", "Cars on a GPU step from PyTorch without a copy, as the CPU's do.",
            "ensembles.gpu_batch:gpu_batch", 1, needs=("gpu", "package torch")),
    Promise("gpu-prepare", "Programs for a GPU and references for them are made where there is none.",
            "speed.gpu_programs:prepared", 5),
    Promise("gpu-programs", "Prepared programs give the CPU's results on a GPU: how fast.",
            "speed.gpu_programs:gpu_programs", 5, needs=("gpu",)),
)  # fmt: skip
_OTHERS = (
    Promise("foreign-readers", "Readers of others find in a record what we find, bit for bit.",
            "others.foreign_readers:foreign_readers", 0.5, needs=("package rosbags", "package mcap_ros2")),
    Promise("fmu", "A step in an FMU beside the bare step, to the bit.",
            "others.fmu:fmu", 1.5, needs=_FMPY, bench={}),
    Promise("fmu-drive", "The FMU of a drive gives every recorded step to the bit.",
            "others.fmu_promises:fmu_promises", 2, needs=(*_FMPY, "package scipy"), quick={"seconds": 5.0}),
    Promise("fmu-exchange", "A mechanism by Model Exchange is its own steps.",
            "others.fmu_promises:fmu_exchange", 1, needs=(*_FMPY, "package scipy")),
    Promise("foreign-fmu", "What a step of a foreign FMU costs in the loop's hands.",
            "others.foreign_fmu:foreign_fmu_step", 0.3, needs=("program cc",), quick={}),
    Promise("measured-car", "Parameters from one half of a measured drive explain the other half.",
            "others.measured_car:measured_car", 3, needs=("real data",), drill={}),
    *(
        Promise(f"reality-{name}", text,
                f"others.reality:{name}", minutes, needs=needs, quick=quick)
        for name, text, minutes, needs, quick in (
            ("adams", "Joints and a spring are those of ADAMS, 5 s, in both formulations.", 2, ("real data",), None),
            ("rav4", "The bus of a RAV4 is decoded as its owner did.", 0.3, (), {}),
            ("gnss", "Its GNSS receiver beside the virtual one.", 0.1, ("real data",), {}),
            ("roads", "Measured roads are read as they say of themselves.", 0.3, ("real data",), {}),
            ("mf4", "Files of a CAN logger are read and decoded.", 0.3, ("real data",), {}),
            ("tyres", "Rows of a tyre rig are read with their units.", 0.1, ("real data",), {}),
        )
    ),
)  # fmt: skip
_TREE = (
    Promise("golden", "Stored runs of earlier versions replay to the bit.",
            "tree.golden:golden", 0.3, quick={}, drill={}),
    Promise("pins", "Hashes of pinned packages are those of the index (--write puts them right).",
            "tree.pins:pins", 1),
    Promise("repeat", "Tests pass however often, and beside whatever else, they run.",
            "tree.repeat:repeat", 10),
    Promise("versions", "The tests pass with the oldest and the newest packages that are allowed.",
            "tree.versions:versions", 60),
    Promise("suite", "The tests pass on another release of Debian and its Python.",
            "tree.suite:suite", 30, needs=("root", "program mmdebstrap", "program git", "program unshare")),
    Promise("image", "The image is built, a drive runs in it, and the unit runs under systemd.",
            "tree.image:image", 5, needs=("root", "program buildah", "program mmdebstrap", "program systemd-nspawn")),
)  # fmt: skip
PROMISES: dict[str, Promise] = {
    promise.name: promise
    for promise in (*_PATH, *_SPEED, *_PHYSICS, *_ESTIMATION, *_ROBUSTNESS, *_ENSEMBLES, *_OTHERS, *_TREE)
}
