"""What one step of the model reports (sim_service/step_kernel.py): indices into its words, and values of them."""

# what a step reports: stages of the rows of inputs, which of them were beyond their limits, whether the model diverged;
# and what the next one has to know: divergences without calm between, good steps since the last
STAGES, CLIPPED, DIVERGED, IN_A_ROW, GOOD_STEPS = range(5)
RESULT_WORDS = 5
ONCE_MORE, OVER = 1, 2  # a model that diverged goes on, or not
