"""What one step of the model reports (sim_service/step_kernel.py): indices into its words, and values of them."""

# what a step reports: stages of the channels, which were beyond their limits, whether the model diverged; and what the
# next one has to know: whether steering was stale, divergences without calm between, good steps since the last
STAGES, BEYOND, DIVERGED, HELD, IN_A_ROW, GOOD_STEPS = range(6)
RESULT_WORDS = 6
ONCE_MORE, OVER = 1, 2  # a model that diverged goes on, or not
