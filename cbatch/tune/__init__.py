"""Which parameters of the engine are fastest here: candidates, their measurement, the choice, and where it is kept.

    Setting -> Bench (a real context) -> Speeds -> race: the fastest setting
    Setting -> survey (many loads)    -> StepCostModel -> predicted jobs: slots, token budget
    Tuning  -> Profile (a JSON file by model, machine and library)

Knows no command line and no terminal.
"""
