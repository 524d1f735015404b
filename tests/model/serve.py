"""llama.cpp's server with a model: prints its address, and ends when its standard input does."""

import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx = 4 * 4096
params.n_parallel = 4
params.cache_ram_mib = 0  # of prompts beside the slots: up to 8 GiB otherwise
params.port = 0
params.ui = False
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(sys.argv[2])
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
