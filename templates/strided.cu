/* @(title): @(plan.family) family. Made by stridec. */
@ include "templates/launch.cuh"

@ include "templates/words.cuh"

@ if funnels then
@ include "templates/funnel.cuh"

@ end
@ for _, mover in ipairs(movers) do
@ include("templates/" .. mover .. ".cuh")

@ end
@ include "templates/entries.cuh"
