"""`evalstream compare evaluators`: past traffic judged again, to compare a new evaluator or judge with the old one."""
