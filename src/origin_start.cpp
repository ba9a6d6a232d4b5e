// Where the program lies is asked before main by a static libc, for the modules it could load: readlink(2) of
// /proc/self/exe, for which the kernel makes /proc/PID and takes it down at the end, 2 % of a short command's time. lk
// loads none. This takes the place of libc's function; -1 is its word for "not known".

// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): libc's name.
extern "C" const char* _dl_get_origin();
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming,performance-no-int-to-ptr)
extern "C" const char* _dl_get_origin() { return reinterpret_cast<const char*>(-1); }
