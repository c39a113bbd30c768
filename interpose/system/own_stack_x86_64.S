// culprit_switch_stack(argument, work, top): see own_stack.cpp. `top` is a multiple of 16.
//
// A program may have set the flag for alignment checks (AC): unwinding reads unaligned words, which would raise SIGBUS.
// It may have set the direction flag (DF), against the calling convention: compilers copy by string instructions.
#include "interpose/base/stub_x86_64.inc"

    .hidden culprit_switch_stack
    STUB_BEGIN culprit_switch_stack
    FRAME_BEGIN
    pushfq
    pushfq
    andq $-0x40401, (%rsp)
    popfq
    mov %rdx, %rsp
    call *%rsi
    lea -8(%rbp), %rsp
    popfq
    mov %rbp, %rsp
    FRAME_END
    ret
    STUB_END culprit_switch_stack
