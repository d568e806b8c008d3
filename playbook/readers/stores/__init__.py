"""Binary and database files: TensorBoard, Weights & Biases, MLflow, SQLite, parquet."""
