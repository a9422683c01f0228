from tests.daq_service.conftest import manoeuvre_file, rings  # noqa: F401
