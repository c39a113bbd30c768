# Prints each allocation and each free of a program under culprit: `culprit help probes`. gdb turns the probes on when the
# library is loaded.
set breakpoint pending on
set pagination off
handle SIGUSR2 nostop noprint pass
break -probe-stap culprit:alloc
commands
silent
printf "alloc %#lx %lu %lu %d %u %s\n", $_probe_arg0, $_probe_arg1, $_probe_arg2, $_probe_arg3, $_probe_arg4, (char *)$_probe_arg5
continue
end
break -probe-stap culprit:free
commands
silent
printf "free %#lx %lu %lu %d %u %s\n", $_probe_arg0, $_probe_arg1, $_probe_arg2, $_probe_arg3, $_probe_arg4, (char *)$_probe_arg5
continue
end
