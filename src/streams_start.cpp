// std::cout and its seven sisters are made before main wherever a library includes <iostream> (SQLiteCpp does): 60 us
// of every start, for streams that lk does not use. The linker leads the calls here (--wrap, CMakeLists.txt). Who would
// use one of them does not link.

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the names are the linker's, ld(1), around
// those of std::ios_base::Init's constructor and destructor.
extern "C" void __wrap__ZNSt8ios_base4InitC1Ev(void* init);
extern "C" void __wrap__ZNSt8ios_base4InitD1Ev(void* init);
extern "C" void __wrap__ZNSt8ios_base4InitC1Ev(void* /*init*/) {}
extern "C" void __wrap__ZNSt8ios_base4InitD1Ev(void* /*init*/) {}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
