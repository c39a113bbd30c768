// dlsym and dlvsym: see dlsym_x86_64.S.
    .macro ASK_OR_FORWARD function, answer, real
    .globl \function
    .type \function, %function
\function:
    .cfi_startproc
    stp x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset 29, -48
    .cfi_offset 30, -40
    stp x0, x1, [sp, #16]
    str x2, [sp, #32]
    mov x3, x30
    mov x29, sp
    bl \answer
    mov x4, x0
    mov x5, x1
    ldp x0, x1, [sp, #16]
    ldr x2, [sp, #32]
    ldp x29, x30, [sp], #48
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    cbz x5, 1f
    mov x0, x4
    ret
1:  adrp x16, \real
    ldr x16, [x16, :lo12:\real]
    br x16
    .cfi_endproc
    .size \function, .-\function
    .endm

    .text
    ASK_OR_FORWARD dlsym, culprit_answer_dlsym, culprit_real_dlsym
    ASK_OR_FORWARD dlvsym, culprit_answer_dlvsym, culprit_real_dlvsym
    .section .note.GNU-stack, "", %progbits
