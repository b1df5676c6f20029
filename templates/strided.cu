/* @(title): @(plan.family) family. Made by stridec. */
@ include "templates/launch.cuh"

@ include(plan.gathers and "templates/gather.cuh" or "templates/move.cuh")

@ include "templates/entries.cuh"
