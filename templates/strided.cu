/* @(title): @(plan.family) family. Made by stridec. */
@ include "templates/launch.cuh"

@ include "templates/words.cuh"

@ for _, mover in ipairs(movers) do
@ include("templates/" .. mover .. ".cuh")

@ end
@ include "templates/entries.cuh"
