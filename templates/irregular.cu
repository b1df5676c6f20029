/* @(title): @(plan.family) family. Made by stridec. */
@ include "templates/launch.cuh"

@ if numbers > 0 then
@ include "templates/lists.cuh"

@ end
@ include(plan.gathers and "templates/gather.cuh" or "templates/scatter.cuh")

@ include "templates/entries.cuh"
