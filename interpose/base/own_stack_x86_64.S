// culprit_switch_stack(argument, work, top): see own_stack.cpp. `top` is a multiple of 16.
#include "interpose/base/stub_x86_64.inc"

    .hidden culprit_switch_stack
    STUB_BEGIN culprit_switch_stack
    FRAME_BEGIN
    mov %rdx, %rsp
    call *%rsi
    mov %rbp, %rsp
    FRAME_END
    ret
    STUB_END culprit_switch_stack
