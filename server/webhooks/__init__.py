"""Events for the operator's own services: written with the job's end, sent until they are taken."""
