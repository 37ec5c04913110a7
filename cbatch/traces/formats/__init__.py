"""Trace files of other tools (and cbatch's own), one module a format.

A format says in what container it comes, by which columns it is recognised, and how one record becomes a request.
Times stay as the file counts them and lengths as the file gives them: what becomes of them is the importer's business.
"""
