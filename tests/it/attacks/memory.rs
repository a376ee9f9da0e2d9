//! Memory in sum: bodies, answers, notices and waiting calls against one budget.
