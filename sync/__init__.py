from sync.blas import one_thread

one_thread()
