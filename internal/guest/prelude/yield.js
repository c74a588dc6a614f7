// yield_control gives the turn back to the model.

