"""What any program needs: errors, limits of the machine, threads, compiled loops, progress."""
