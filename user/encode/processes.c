#include "encode/encode.h"
const char *process_sort__name(enum process_sort sort) { static const char *const n[] = {"growth","live","rss"}; return n[sort]; }
int encode_processes(const struct profile *const *profiles, size_t n, const struct process_table_options *options, struct sink *sink)
{ struct table_options o = {.top = 3, .width = options->width}; for (size_t i = 0; i < n; i++) encode_table(profiles[i], &o, sink); return sink->error; }
