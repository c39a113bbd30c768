// dlsym(handle, name) and dlvsym(handle, name, version): each asks its answer function in dlsym.cpp, and either
// returns that answer or jumps to the real function with the caller's own return address still on the stack, because
// both resolve RTLD_NEXT and RTLD_DEFAULT relative to their caller.
#include "interpose/base/stub_x86_64.inc"

    .macro ASK_OR_FORWARD function, answer, real
    STUB_BEGIN \function
    SAVE %rdi
    SAVE %rsi
    SAVE %rdx
    mov 24(%rsp), %rcx          // fourth argument: the caller's address
    call \answer
    mov %rdx, %rcx
    RESTORE %rdx
    RESTORE %rsi
    RESTORE %rdi
    test %rcx, %rcx
    jz 1f
    ret
1:  jmp *\real(%rip)
    STUB_END \function
    .endm

    ASK_OR_FORWARD dlsym, culprit_answer_dlsym, culprit_real_dlsym
    ASK_OR_FORWARD dlvsym, culprit_answer_dlvsym, culprit_real_dlvsym
