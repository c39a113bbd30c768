// cudaFree and similar functions: each looks up its target, and jumps there with the caller's arguments and return
// address, so that no frame of ours is between the program and its runtime. The numbers are indexes into kNames in
// runtime_frees.cpp.
#include "interpose/base/stub_x86_64.inc"

    .macro FORWARD function, number
    STUB_BEGIN \function
    SAVE %rdi
    SAVE %rsi
    sub $8, %rsp
    .cfi_adjust_cfa_offset 8
    mov $\number, %edi
    mov 24(%rsp), %rsi
    call culprit_runtime_target
    add $8, %rsp
    .cfi_adjust_cfa_offset -8
    RESTORE %rsi
    RESTORE %rdi
    jmp *%rax
    STUB_END \function
    .endm

    FORWARD cudaFree, 0
    FORWARD cudaFreeHost, 1
    FORWARD cudaFreeAsync, 2
    FORWARD cudaFreeAsync_ptsz, 3
    FORWARD cudaFreeArray, 4
    FORWARD cudaFreeMipmappedArray, 5
    FORWARD cudaHostUnregister, 6
