"""The command `tandem run`, for any machine."""

from pathlib import Path

from tandem.console.config_argument import NeededConfig
from tandem.console.terminal import AsJson, Overrides, Runs, TokenFile
from tandem.live.reported import RecordOption, Repeat, Seconds, TransportOption, run_and_report, settings_of


def run(
    config: NeededConfig,
    seconds: Seconds = None,
    transport: TransportOption = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
    record: RecordOption = None,
    repeat: Repeat = None,
    token_file: TokenFile = None,
) -> None:
    """Run the DAQ and the simulator of any machine side by side, record both, and say how old the data were."""
    settings = settings_of(overrides, transport, record, repeat)
    run_and_report("run", config, settings, seconds, as_json, runs, token_file)
