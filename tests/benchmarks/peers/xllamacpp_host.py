"""xllamacpp's server in a process of its own: its library and llama-cpp-python's can't share one."""

from __future__ import annotations

import argparse
import importlib
import signal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-m", required=True, help="the model")
    parser.add_argument("-np", type=int, required=True, help="slots")
    parser.add_argument("-c", type=int, required=True, help="KV cells in all")
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    xllamacpp = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = given.m
    params.n_parallel, params.n_ctx = given.np, given.c
    params.hostnames, params.port = ["127.0.0.1"], given.port
    server = xllamacpp.Server(params)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    del server


if __name__ == "__main__":
    main()
