"""Block passes over X Yᵀ: the quantile, the edges above it, log-sum-exp of rows and columns, the hardest columns."""
