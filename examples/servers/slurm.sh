#!/bin/bash
# Slurm: sbatch slurm.sh. Each rank has a dump in the folder of the job, and the last lines report all of them.
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
set -euo pipefail
# A folder that all nodes share.
dumps=${CULPRIT_DUMPS:-$PWD/culprit.$SLURM_JOB_ID}
mkdir -p "$dumps"
status=0
# --export=ALL: srun hands the variables of culprit on. %q{SLURM_PROCID} is the rank.
culprit run --out "$dumps/rank%q{SLURM_PROCID}.%h.%p.dump" -o "$dumps/report.html" -- \
  srun --export=ALL "${@:-./train}" || status=$?
# 30 days of reports are kept.
find "$(dirname "$dumps")" -maxdepth 1 -name 'culprit.[0-9]*' -mtime +30 -exec rm -r {} +
exit "$status"
