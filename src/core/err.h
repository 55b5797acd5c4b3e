/* err.h - results that need more than true or false.
 *
 * A DNS failure is an answer with an RCODE, never one of these. */
#ifndef PITH_CORE_ERR_H
#define PITH_CORE_ERR_H

enum err {
    ERR_OK = 0,
    ERR_NOMEM,   /* memory or another resource of ours ran out */
    ERR_SYSTEM,  /* a system call failed, errno tells */
    ERR_FORMAT,  /* the input is malformed */
    ERR_SPACE,   /* the output does not fit */
    ERR_LIMIT,   /* a configured or built-in limit was reached */
    ERR_MISSING, /* what was asked for is not there */
};

#endif
