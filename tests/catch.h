// Catch2, whichever of its two major versions the distribution has: Debian 12 packages 2.13, Ubuntu 24.04 packages 3.4.
//
// The tests use what both have: TEST_CASE, SECTION, CHECK, REQUIRE, INFO, CAPTURE, WARN, GENERATE. There is no SKIP in
// 2.13: a test that cannot run returns early after a WARN. Link Catch2::Catch2.
//
// tests/main.cpp, which every test program links, defines CATCH_CONFIG_MAIN before it includes this file. Version 2
// then makes a main(); version 3 would have it in a library of its own, Catch2WithMain, so here is one that needs no
// other target.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#ifdef CATCH_CONFIG_MAIN
int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
#endif
#else
#include <catch2/catch.hpp>
#endif
