"""What a person sees: a live view while a run goes on (`view.choose_view`), and a summary at its end (`summary`)."""
