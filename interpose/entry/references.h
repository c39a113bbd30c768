// References to functions of a library that is not there: `if (cuInit)`, with cuInit declared weak, asks "is this a
// CUDA build?". Alone the loader leaves such a reference null where no module of the global scope defines the name. We
// export the names, so it binds them to us, and the program would take its branch for CUDA.
//
// At load, before any constructor (-z initfirst), references of that kind in the modules that are there become null
// again: answer_references() looks for them among the modules' undefined weak symbols.
//
// If a module of the start refers to dlopen() or dlsym(), others may come later. For those these exports (CUDA's names,
// and those of a C++ runtime in a program without one) become IFUNCs in our symbol table in memory, so that the loader
// asks us: the hook if a module defines the name by then (libcuda comes before the module that is linked to it), else
// null. A module with a strong reference that nothing defines gets the hook, as before: alone it would not load.
//
// Why no IFUNCs in the file: the loader relocates the last module first, so at the start of a program all libraries are
// bound to us before we are relocated. glibc then prints "Relink `libx.so' with `libculprit.so' for IFUNC symbol
// `cuInit'", and calls a resolver that cannot reach its data yet. musl knows no IFUNCs at all. Why exports at all, and
// no stores into the slots of modules that are linked to libcuda: a module that is opened later calls its driver from
// its own constructor, before we know of it, because we do not hook dlopen().
#pragma once

namespace culprit {

// Call at load. Does nothing in a library that was loaded late: lookups do not reach it.
void answer_references();

}  // namespace culprit
