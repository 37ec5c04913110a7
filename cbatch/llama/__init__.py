"""llama.cpp behind cbatch's protocols: the only package that imports the native bindings.

model files and probe -> model -> tokenizer, chat template, encoder -> context, batch composition, sampling -> runner
"""
