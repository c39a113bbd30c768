// cudaFree and similar functions: each looks up its target, and jumps there with the caller's arguments and return
// address, so that no frame of ours is between the program and its runtime. The numbers are indexes into kNames in
// runtime_frees.cpp.
    .macro FORWARD function, number
    .globl \function
    .type \function, @function
\function:
    .cfi_startproc
    endbr64
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    sub $8, %rsp
    .cfi_adjust_cfa_offset 8
    mov $\number, %edi
    mov 24(%rsp), %rsi
    call culprit_runtime_target
    add $8, %rsp
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
    .size \function, .-\function
    .endm

    .text
    FORWARD cudaFree, 0
    FORWARD cudaFreeHost, 1
    FORWARD cudaFreeAsync, 2
    FORWARD cudaFreeAsync_ptsz, 3
    FORWARD cudaFreeArray, 4
    FORWARD cudaFreeMipmappedArray, 5
    FORWARD cudaHostUnregister, 6
    .section .note.GNU-stack, "", @progbits
