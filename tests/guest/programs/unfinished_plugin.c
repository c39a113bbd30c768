// A library that cannot be loaded: the loader maps it, finds no definition of this function, and unmaps it.
int defined_nowhere(void);

int call_in_plugin(void) { return defined_nowhere(); }
