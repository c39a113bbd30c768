// dladdr(address, info) and dladdr1(address, info, extra, flags): each asks its answer function in dladdr.cpp, and
// either returns that answer or jumps to the real function.
#include "interpose/base/stub_x86_64.inc"

    .macro ASK_OR_FORWARD function, answer, real
    STUB_BEGIN \function
    SAVE %rdi
    SAVE %rsi
    SAVE %rdx
    SAVE %rcx
    sub $8, %rsp
    .cfi_adjust_cfa_offset 8
    call \answer
    mov %rdx, %r11
    add $8, %rsp
    .cfi_adjust_cfa_offset -8
    RESTORE %rcx
    RESTORE %rdx
    RESTORE %rsi
    RESTORE %rdi
    test %r11, %r11
    jz 1f
    ret
1:  jmp *\real(%rip)
    STUB_END \function
    .endm

    ASK_OR_FORWARD dladdr, culprit_answer_dladdr, culprit_real_dladdr
    ASK_OR_FORWARD dladdr1, culprit_answer_dladdr1, culprit_real_dladdr1
