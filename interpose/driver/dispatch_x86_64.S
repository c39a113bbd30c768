// Where the hooks lead while a process has several drivers: one stub for each row, which jumps to that row's function in
// the calling thread's driver (loaded_drivers.h), with the caller's arguments and return address as they were. Without
// such a function: CUDA_ERROR_NOT_INITIALIZED. Uses r10 and r11, which carry no argument.
#include "interpose/base/stub_x86_64.inc"

    .p2align 4
    .globl culprit_dispatch
    .type culprit_dispatch, @function
culprit_dispatch:
    .cfi_startproc
    .rept 384                   // kDispatchStubs
    .p2align 4
    endbr64
    lea 0(%rip), %r11           // 7 bytes
    jmp culprit_dispatch_row
    .endr
    STUB_END culprit_dispatch

    STUB_BEGIN culprit_dispatch_row
    lea culprit_dispatch+11(%rip), %r10
    sub %r10, %r11              // 16 bytes for each row
    shr $1, %r11                // 8 bytes for each address
    mov _ZN7culprit13called_driverE@gottpoff(%rip), %r10
    mov %fs:(%r10), %r10
    test %r10, %r10
    jnz 1f
    mov culprit_first_driver(%rip), %r10
    test %r10, %r10
    jz 2f
1:  mov (%r10,%r11), %r11
    test %r11, %r11
    jz 2f
    jmp *%r11
2:  mov $3, %eax
    ret
    STUB_END culprit_dispatch_row

    .hidden culprit_dispatch
    .hidden culprit_dispatch_row
