"""`evalstream replay`: past traffic evaluated again, to compare a new evaluator or judge with the old one."""
