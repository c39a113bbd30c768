// A module that is larger than the gaps between those that a program begins with: memory that is mapped after it lies
// right before it.
static char room[32 << 20];

extern "C" char* room_of_module() { return room; }
