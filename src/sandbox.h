/* sandbox.h - the system calls that a running server needs, and no others.
 *
 * What is not on the list fails with EPERM and one line in the log that names the call (the
 * first time), so that a server that was broken into cannot start programs, trace or load
 * anything, and a call that was forgotten here is found. */
#ifndef PITH_SANDBOX_H
#define PITH_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

/* For this thread and those it starts from now on, for good. Needs no_new_privs. Does nothing
 * where libseccomp, the kernel or the processor has no filter that can be logged, and under
 * sanitizers, whose runtimes do more than we know. False with a line in error. */
bool sandbox_start(char *error, size_t error_size);

#endif
