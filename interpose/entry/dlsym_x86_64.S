// dlsym(handle, name) and dlvsym(handle, name, version): each asks its answer function in dlsym.cpp, and either
// returns that answer or jumps to the real function with the caller's own return address still on the stack, because
// both resolve RTLD_NEXT and RTLD_DEFAULT relative to their caller.
    .macro ASK_OR_FORWARD function, answer, real
    .globl \function
    .type \function, @function
\function:
    .cfi_startproc
    endbr64
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    push %rdx
    .cfi_adjust_cfa_offset 8
    mov 24(%rsp), %rcx          // fourth argument: the caller's address
    call \answer
    mov %rdx, %rcx
    pop %rdx
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    test %rcx, %rcx
    jz 1f
    ret
1:  jmp *\real(%rip)
    .cfi_endproc
    .size \function, .-\function
    .endm

    .text
    ASK_OR_FORWARD dlsym, culprit_answer_dlsym, culprit_real_dlsym
    ASK_OR_FORWARD dlvsym, culprit_answer_dlvsym, culprit_real_dlvsym
    .section .note.GNU-stack, "", @progbits
