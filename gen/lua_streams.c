/* lua_streams.c: the standard streams under the names that the Makefile gives Lua's references to them. */
#include <stdio.h>

FILE *stridec_lua_stdin, *stridec_lua_stdout, *stridec_lua_stderr;

__attribute__((constructor)) static void lua_streams(void)
{
    stridec_lua_stdin = stdin;
    stridec_lua_stdout = stdout;
    stridec_lua_stderr = stderr;
}
